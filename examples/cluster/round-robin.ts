import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

/**
 * A plain proxy: each request goes to the next node, whatever session it belongs to. Nodes that do not answer are passed over
 * while nothing of the answer is out.
 *
 * @param targets base URLs of the nodes
 */
export function roundRobin(targets: readonly URL[]): Server {
  let turn = 0;
  return createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => forward(incoming, Buffer.concat(chunks), outgoing, targets.length));
  });

  function forward(incoming: IncomingMessage, body: Buffer, outgoing: ServerResponse, attempts: number): void {
    const { hostname, port } = targets[turn++ % targets.length]!;
    const { url: path, method, headers } = incoming;
    const onward = request({ hostname, port, path, method, headers, agent: false }, (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.headers);
      outgoing.flushHeaders();
      answer.pipe(outgoing);
      answer.on('error', () => outgoing.destroy());
    });
    onward.on('error', () => {
      if (outgoing.headersSent) outgoing.destroy();
      else if (attempts > 1) forward(incoming, body, outgoing, attempts - 1);
      else outgoing.writeHead(502).end();
    });
    outgoing.on('close', () => onward.destroy());
    onward.end(body);
  }
}
