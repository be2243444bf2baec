import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { createMcpTestClient, expectNothingLeft } from 'nestjs-mcp-streamable/testing';
import { afterEach, expect, it, vi } from 'vitest';
import { ReportsModule } from '../../examples/snippets/report-tools.js';
import { RunningReports } from '../../examples/snippets/running-reports.js';
import { YearTools } from '../../examples/snippets/year-tools.js';

afterEach(() => void vi.useRealTimers());

it('the code of docs/tasks.md begins, follows and ends tasks', async () => {
  const testing = await Test.createTestingModule({
    imports: [ReportsModule],
    providers: [YearTools, RunningReports],
  }).compile();
  // A month of the report takes a second.
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const app = testing.createNestApplication<NestFastifyApplication>(new FastifyAdapter(), { logger: false });
  const mcp = await createMcpTestClient(app, {
    era: 'modern',
    elicit: ({ message }) => ({ action: 'accept', content: { sure: !message.includes('1999') } }),
  });
  const report = mcp.callTool('yearly_report', { year: 2026 });
  await Promise.all([report, yearPasses(report)]);
  expect((await report).text).toBe('The report of 2026 is ready.');
  expect((await mcp.callTool('close_year', { year: 2026 })).text).toBe('2026 is closed.');
  expect((await mcp.callTool('close_year', { year: 1999 })).text).toBe('1999 stays open.');
  expect((await mcp.callTool('archive_year', { year: 2026 })).text).toBe('2026 is in the archive.');
  const reports = app.get(RunningReports);
  await reports.cancelAllOf('ann');
  expect(await reports.of('ann')).toEqual([]);
  await mcp.close();
  await expectNothingLeft(app);
  await app.close();
});

async function yearPasses(report: Promise<unknown>): Promise<void> {
  const second = async (): Promise<boolean> => {
    vi.advanceTimersByTime(1_000);
    return new Promise((resolve) => void setImmediate(() => resolve(false)));
  };
  const over = report.then(() => true);
  while (!(await Promise.race([over, second()])));
}
