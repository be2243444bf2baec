import { relative } from 'node:path';
import { beforeEach } from 'vitest';
import { reasonFor } from './one-node.js';

beforeEach(({ task, skip }) => {
  const file = relative('test', task.file.filepath);
  const reason = reasonFor(file, task.fullTestName);
  if (reason !== undefined) skip(reason);
});
