import { redisUrl, VideoQueue } from './video-queue.js';
// #region tool
import { setTimeout } from 'node:timers/promises';
import { Inject, Injectable, Module, UnprocessableEntityException } from '@nestjs/common';
import {
  McpArgs,
  type McpContext,
  McpCtx,
  McpStreamableModule,
  Tool,
} from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { z } from 'zod';

const Video = z.object({ video: z.string().max(200) });
const KEPT = { age: 3_600, count: 1_000 };

@Injectable()
export class VideoTools {
  everyMs = 500;

  constructor(@Inject(VideoQueue) private readonly videos: VideoQueue) {}

  @Tool({
    name: 'convert_video',
    description: 'Converts a video',
    inputSchema: Video,
    task: 'optional',
  })
  async convert(
    @McpArgs('video') video: string,
    @McpCtx() ctx: McpContext,
  ): Promise<string> {
    const { principal, signal } = ctx;
    const options = { attempts: 3, removeOnComplete: KEPT, removeOnFail: KEPT };
    const { id } = await this.videos.jobs.add('convert', { video, principal }, options);
    for (;;) {
      // The state comes first: a job that is read before it is done has no result yet.
      const state = await this.videos.jobs.getJobState(id!);
      const job = await this.videos.jobs.getJob(id!);
      if (job && state === 'completed') return `Converted: ${job.returnvalue}`;
      // The log of the worker has the reason, which is not for the model.
      if (!job || state === 'failed')
        throw new UnprocessableEntityException('The video could not be converted.');
      if (state === 'active')
        await ctx.progress(Number(job.progress), 100, `${Number(job.progress)} %`);
      try {
        await setTimeout(this.everyMs, undefined, { signal });
      } catch (error) {
        // After `tasks/cancel`, the end of `ttlMs` or a shutdown, nothing waits for the
        // job.
        await this.videos.cancel(job);
        throw error;
      }
    }
  }
}
// #endregion

// #region module
@Module({
  imports: [
    McpStreamableModule.forRootAsync({
      useFactory: () => ({
        serverInfo: { name: 'videos', version: '1.0.0' },
        backend: redisBackend(redisUrl()),
        requestStateKeys: [process.env['REQUEST_STATE_KEY']!],
      }),
    }),
    McpTasksModule.forRoot({ ttlMs: 3_600_000 }), // as long as a job may wait and run
  ],
  providers: [VideoQueue, VideoTools],
})
export class VideosModule {}
// #endregion
