/** Splits a stream of server-sent events as it comes. @returns what takes the pieces */
export function sseSplitter(event: (data: string, id: string | undefined) => void): (piece: string) => void {
  let rest = '';
  return (piece) => {
    rest += piece;
    let from = 0;
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n', from)) {
      const block = rest.slice(from, end);
      from = end + 2;
      const data = fieldOf(block, 'data');
      if (data !== undefined) event(data, fieldOf(block, 'id'));
    }
    if (from > 0) rest = rest.slice(from);
  };
}

/** All events of a body that has come whole. */
export function sseData(body: string): string[] {
  const found: string[] = [];
  sseSplitter((data) => {
    // An event without data only says where the stream begins.
    if (data !== '') found.push(data);
  })(body);
  return found;
}

/** One line each is all that the servers here send. */
function fieldOf(block: string, name: string): string | undefined {
  const start = block.startsWith(`${name}:`) ? 0 : block.indexOf(`\n${name}:`) + 1;
  if (start === 0 && !block.startsWith(`${name}:`)) return undefined;
  const end = block.indexOf('\n', start);
  return block.slice(start + name.length + 1, end < 0 ? undefined : end).trimStart();
}
