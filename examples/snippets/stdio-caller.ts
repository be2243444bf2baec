import { userInfo } from 'node:os';
import type { INestApplicationContext } from '@nestjs/common';
import { serveMcpStdio } from 'nestjs-mcp-streamable/stdio';

export async function serveUser(app: INestApplicationContext): Promise<void> {
  // #region caller
  const { username } = userInfo();
  await serveMcpStdio(app, { principal: username, request: { user: { id: username } } });
  // #endregion
}
