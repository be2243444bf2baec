import type { INestApplication, INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { McpTaskService } from 'nestjs-mcp-streamable/tasks';
import { createMcpTestClient, expectNothingLeft, type McpTestClient } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { VideoQueue } from '../../examples/snippets/video-queue.js';
import { VideosModule, VideoTools } from '../../examples/snippets/video-tools.js';
import { Converter, WorkerModule } from '../../examples/snippets/video-worker.js';
import { eventually } from '../support/eventually.js';
import { describeRedis, RedisServer } from '../support/redis.js';

describeRedis(
  'a tool on a queue of BullMQ',
  () => {
    let redis: RedisServer;
    let app: INestApplication;
    let mcp: McpTestClient;
    const workers: INestApplicationContext[] = [];

    beforeEach(async () => {
      redis = await RedisServer.start();
      vi.stubEnv('REDIS_URL', redis.url);
      vi.stubEnv('REQUEST_STATE_KEY', 'k'.repeat(44));
      const testing = await Test.createTestingModule({ imports: [VideosModule] }).compile();
      app = testing.createNestApplication({ logger: false });
      mcp = await createMcpTestClient(app, { era: 'modern' });
      app.get(VideoTools, { strict: false }).everyMs = 20;
    });

    afterEach(async () => {
      await mcp.close();
      for (const worker of workers.splice(0)) await worker.close();
      await expectNothingLeft(app);
      await app.close();
      await redis.stop();
      vi.unstubAllEnvs();
    });

    async function startWorker(step: Converter['step']): Promise<void> {
      const worker = await NestFactory.createApplicationContext(WorkerModule, { logger: false });
      vi.spyOn(worker.get(Converter), 'step').mockImplementation(step);
      workers.push(worker);
    }

    const jobs = () => app.get(VideoQueue, { strict: false }).jobs;
    const tasks = () => app.get(McpTaskService, { strict: false });

    it('a tool on a queue of BullMQ becomes a task, which ends when a worker of another process has done the job', async () => {
      const done = vi.fn(async () => {});
      const call = mcp.callTool('convert_video', { video: 'cats & dogs' });
      // The task waits in the queue: there is no worker yet.
      await eventually(async () => expect(await jobs().getWaitingCount()).toBe(1));
      expect(await tasks().list()).toMatchObject([{ status: 'working' }]);
      await startWorker(done);
      expect((await call).text).toBe('Converted: https://videos.example.com/cats%20%26%20dogs');
      expect(done).toHaveBeenCalledTimes(4);
    });

    it('a tool on a queue of BullMQ has the result of a job that is done while the tool reads it', async () => {
      const getJob = jobs().getJob.bind(jobs());
      vi.spyOn(jobs(), 'getJob').mockImplementationOnce(async (id) => {
        const job = await getJob(id);
        await startWorker(async () => {});
        await eventually(async () => expect(await jobs().getCompletedCount()).toBe(1));
        return job;
      });
      const { text } = await mcp.callTool('convert_video', { video: 'cats' });
      expect(text).toBe('Converted: https://videos.example.com/cats');
    });

    it('a tool on a queue of BullMQ reports the progress of the job', async () => {
      const opened: (() => void)[] = [];
      await startWorker((_, step) =>
        step === 3 ? new Promise((resolve) => void opened.push(resolve)) : Promise.resolve(),
      );
      const call = mcp.callTool('convert_video', { video: 'cats' });
      await eventually(async () => expect(await tasks().list()).toMatchObject([{ statusMessage: '50 %' }]));
      opened[0]!();
      expect((await call).isError).toBe(false);
    });

    it('a job that fails three times is a result for the model, without what the worker said', async () => {
      const fail = vi.fn(async () => {
        throw new Error('password of ffmpeg');
      });
      await startWorker(fail);
      const { text, isError } = await mcp.callTool('convert_video', { video: 'cats' });
      expect({ text, isError }).toEqual({ text: 'The video could not be converted.', isError: true });
      expect(fail).toHaveBeenCalledTimes(3);
    });

    it('a cancelled task takes its job out of the queue', async () => {
      const call = mcp.callTool('convert_video', { video: 'cats' }).catch((error: Error) => error);
      await eventually(async () => expect(await jobs().getWaitingCount()).toBe(1));
      const [task] = await tasks().list();
      await tasks().cancel(task!.id);
      expect(await call).toBeInstanceOf(Error);
      await eventually(async () => expect(await jobs().getJobCounts()).toMatchObject({ waiting: 0, active: 0 }));
    });

    it('a cancelled task stops a job that runs at its next step, and it is not tried again', async () => {
      const opened: (() => void)[] = [];
      const step = vi.fn(() => new Promise<void>((resolve) => void opened.push(resolve)));
      await startWorker(step);
      const call = mcp.callTool('convert_video', { video: 'cats' }).catch((error: Error) => error);
      await eventually(() => expect(step).toHaveBeenCalled());
      const [task] = await tasks().list();
      await tasks().cancel(task!.id);
      await call;
      await eventually(async () => expect((await jobs().getActive())[0]?.data.cancelled).toBe(true));
      opened[0]!();
      await eventually(async () => expect(await jobs().getFailedCount()).toBe(1));
      expect(step).toHaveBeenCalledTimes(1);
    });
  },
  'server',
);
