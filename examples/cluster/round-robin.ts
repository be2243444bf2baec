import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

/**
 * A plain proxy: each request goes to the next node, whatever session it belongs to. Nodes that are down are passed over; a
 * request that a node had before it died is not sent again, since it may have been carried out.
 *
 * @param targets base URLs of the nodes
 */
export function roundRobin(targets: readonly URL[]): Server {
  let turn = 0;
  return createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => forward(incoming, Buffer.concat(chunks), outgoing, turn++));
  });

  function forward(incoming: IncomingMessage, body: Buffer, outgoing: ServerResponse, first: number, passed = 0): void {
    const { hostname, port } = targets[(first + passed) % targets.length]!;
    const { url: path, method, headers } = incoming;
    const onward = request({ hostname, port, path, method, headers, agent: false }, (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.headers);
      outgoing.flushHeaders();
      answer.pipe(outgoing);
      answer.on('error', () => outgoing.destroy());
    });
    onward.on('error', ({ code }: NodeJS.ErrnoException) => {
      const isDown = code === 'ECONNREFUSED' && passed + 1 < targets.length;
      if (outgoing.headersSent) outgoing.destroy();
      else if (isDown) forward(incoming, body, outgoing, first, passed + 1);
      else outgoing.writeHead(502).end();
    });
    outgoing.on('close', () => onward.destroy());
    onward.end(body);
  }
}
