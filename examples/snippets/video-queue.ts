// #region queue
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { type Job, Queue } from 'bullmq';

export const VIDEOS = 'videos';
export const redisUrl = (): string =>
  process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379';

/** The data of a job. A worker has no request, so the job names the caller. */
export interface Conversion {
  readonly video: string;
  readonly principal: string | undefined;
  readonly cancelled?: boolean;
}

/** A job returns the address of the converted video. */
@Injectable()
export class VideoQueue implements OnModuleDestroy {
  readonly jobs = new Queue<Conversion, string>(VIDEOS, {
    connection: { url: redisUrl() },
  });

  /**
   * Removes a job that waits. A running job cannot be removed, so it is marked, and
   * stops at its next step.
   */
  async cancel(job: Job<Conversion, string>): Promise<void> {
    await job.remove().catch(() => job.updateData({ ...job.data, cancelled: true }));
  }

  onModuleDestroy(): Promise<void> {
    return this.jobs.close();
  }
}
// #endregion
