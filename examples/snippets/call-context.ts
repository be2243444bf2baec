// #region context
import { currentMcpCall } from 'nestjs-mcp-streamable';

/**
 * Finds, anywhere below a handler, the caller, its session, and whether the call was
 * cancelled.
 */
export function deleteOrder(id: string): Promise<void> {
  const call = currentMcpCall();
  call?.signal.throwIfAborted();
  const caller = call?.principal ?? 'An anonymous caller';
  console.log(`${caller} deletes order ${id} with ${call?.session?.clientInfo.name}`);
  return Promise.resolve();
}
// #endregion

// #region close-stream
/**
 * Closes the connection for work that takes minutes. The client comes back for the result.
 */
export async function longWork(work: () => Promise<string>): Promise<string> {
  currentMcpCall()?.closeStream();
  return work();
}
// #endregion
