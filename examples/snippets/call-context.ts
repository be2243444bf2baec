// #region context
import { currentMcpCall } from 'nestjs-mcp-streamable';

/** Anywhere below a handler: who calls, in which session, and whether it was cancelled. */
export async function deleteOrder(id: string): Promise<void> {
  const call = currentMcpCall();
  call?.signal.throwIfAborted();
  console.log(`${call?.principal ?? 'Somebody'} deletes order ${id} with ${call?.session?.clientInfo.name}`);
}
// #endregion

// #region close-stream
/** Work that takes minutes: let go of the connection, the client comes back for the result. */
export async function longWork(work: () => Promise<string>): Promise<string> {
  currentMcpCall()?.closeStream();
  return work();
}
// #endregion
