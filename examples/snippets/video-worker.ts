// #region worker
import {
  Inject,
  Injectable,
  Module,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import { type Job, UnrecoverableError, Worker } from 'bullmq';
import { type Conversion, redisUrl, VideoQueue, VIDEOS } from './video-queue.js';

/** Converts a video step by step. Your converter calls ffmpeg, or a service. */
@Injectable()
export class Converter {
  readonly steps = 4;
  readonly done: string[] = [];
  step(video: string, step: number): Promise<void> {
    this.done.push(`${video} ${step}`);
    return Promise.resolve();
  }
}

@Injectable()
export class VideoWorker implements OnModuleInit, OnModuleDestroy {
  #worker: Worker<Conversion, string> | undefined;

  constructor(
    @Inject(VideoQueue) private readonly videos: VideoQueue,
    @Inject(Converter) private readonly converter: Converter,
  ) {}

  onModuleInit(): void {
    const connection = { url: redisUrl(), maxRetriesPerRequest: null };
    this.#worker = new Worker(VIDEOS, (job) => this.#convert(job), {
      connection,
      concurrency: 2,
    });
  }

  /** Waits for the jobs that run. */
  async onModuleDestroy(): Promise<void> {
    await this.#worker?.close();
  }

  async #convert({ id, data }: Job<Conversion, string>): Promise<string> {
    for (let step = 1; step <= this.converter.steps; step++) {
      const job = await this.videos.jobs.getJob(id!);
      // BullMQ does not retry.
      if (job?.data.cancelled) throw new UnrecoverableError('Cancelled');
      await this.converter.step(data.video, step);
      await job?.updateProgress((100 * step) / this.converter.steps);
    }
    return `https://videos.example.com/${encodeURIComponent(data.video)}`;
  }
}

/**
 * Runs as an app of its own, without an endpoint:
 * `NestFactory.createApplicationContext(WorkerModule)`.
 */
@Module({ providers: [VideoQueue, Converter, VideoWorker] })
export class WorkerModule {}
// #endregion
