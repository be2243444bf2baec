import { relative } from 'node:path';
import { beforeEach } from 'vitest';
import { reasonFor } from './one-node.js';
// The Redis of a file ends after it: that is arranged where it is imported first.
// oxlint-disable-next-line import/no-unassigned-import -- for what it arranges
import './redis.js';

beforeEach(({ task, skip }) => {
  const file = relative('test', task.file.filepath);
  const reason = reasonFor(file, task.fullTestName);
  if (reason !== undefined) skip(reason);
});
