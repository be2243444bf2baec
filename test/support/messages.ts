/** What tests look at in messages that came over the wire; they are whatever came. */
// oxlint-disable-next-line typescript/no-explicit-any
type Message = any;

/** In short, what a message says: the text of a tool's result, the data of a log message, a progress, an error's code. */
function gist({ id, method, params, result, error }: Message): unknown {
  if (error) return `error ${error.code}`;
  if (result) return result.content?.[0]?.text ?? result;
  switch (method) {
    case 'notifications/message':
      return params.data;
    case 'notifications/progress':
      return `progress ${params.progress}`;
    default:
      return id === undefined ? method : `request ${method}`;
  }
}

export function gists(messages: readonly Message[]): unknown[] {
  return messages.map((message) => gist(message));
}

/** A log message, as a server sends it. */
export function log(data: unknown): { method: 'notifications/message'; params: { level: 'info'; data: unknown } } {
  return { method: 'notifications/message', params: { level: 'info', data } };
}

/** A client's word that it gives up a request. */
export function cancelOf(requestId: unknown, reason?: unknown): object {
  const params = reason === undefined ? { requestId } : { requestId, reason };
  return { jsonrpc: '2.0', method: 'notifications/cancelled', params };
}
