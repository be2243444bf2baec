import { posix } from 'node:path';
import { parseFile } from './imports.js';
import { type FileMap, isSpec, type Violation } from './rules.js';

/** A folder inside a room counts as one: `src/core/handlers/schema/a.ts` → `src/core/handlers/schema`. */
const folderOf = (path: string): string => /^(src\/core\/[^/]+\/[^/]+)\//.exec(path)?.[1] ?? path;

/** Circles of imports, those of types included: of files, and of the folders inside a room, with the files beside them. */
export function findCircles(files: FileMap): Violation[] {
  return [(path: string): string => path, folderOf].flatMap((nodeOf) =>
    circlesIn(graphOf(files, nodeOf)).map((circle) => ({
      path: circle[0]!,
      line: 1,
      message: `a circle of imports: ${circle.join(', ')}`,
    })),
  );
}

function graphOf(files: FileMap, nodeOf: (path: string) => string): Map<string, Set<string>> {
  const graph = new Map<string, Set<string>>();
  for (const [path, text] of files) {
    if (isSpec(path)) continue;
    const from = nodeOf(path);
    const imported = graph.get(from) ?? new Set();
    graph.set(from, imported);
    for (const { specifier } of parseFile(path, text).references) {
      if (!specifier.startsWith('.')) continue;
      const to = nodeOf(posix.join(posix.dirname(path), specifier).replace(/js$/, 'ts'));
      if (to !== from) imported.add(to);
    }
  }
  return graph;
}

/** Returns the nodes that reach each other, by Tarjan's algorithm. */
function circlesIn(graph: ReadonlyMap<string, ReadonlySet<string>>): string[][] {
  const circles: string[][] = [];
  const found = new Map<string, { index: number; low: number; open: boolean }>();
  const stack: string[] = [];
  const visit = (node: string): { low: number; open: boolean } => {
    const own = { index: found.size, low: found.size, open: true };
    found.set(node, own);
    stack.push(node);
    for (const next of graph.get(node) ?? []) {
      const other = found.get(next) ?? visit(next);
      if (other.open) own.low = Math.min(own.low, other.low);
    }
    if (own.low < own.index) return own;
    const members = stack.splice(stack.indexOf(node));
    for (const member of members) found.get(member)!.open = false;
    if (members.length > 1) circles.push(members.toSorted());
    return own;
  };
  for (const node of graph.keys()) if (!found.has(node)) visit(node);
  return circles;
}
