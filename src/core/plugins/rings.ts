/** Outermost first: the one place where the order of features is written down. 'rounds' and 'results' are the core's own. */
export const RINGS = [
  'observe',
  'record',
  'task',
  'switch',
  'app',
  'rounds',
  'once',
  'confirm',
  'results',
  'limit',
] as const;

/** The ring of a plugin: plugins of an app mostly are in 'observe', 'app' or 'limit'. @experimental */
export type McpRing = Exclude<(typeof RINGS)[number], 'rounds' | 'results'>;

const CORE: readonly string[] = ['rounds', 'results'];

/** Where plugins may be. */
export const RINGS_OF_PLUGINS = RINGS.filter((ring): ring is McpRing => !CORE.includes(ring));

/** Outside of 'rounds': a run of a handler has one passage through them, however often the handler runs again. */
export function isAroundRounds(ring: McpRing): boolean {
  return RINGS.indexOf(ring) < RINGS.indexOf('rounds');
}

/** Plugins of this ring may put another client in the place of the one that has called. */
export const DIVERTING: McpRing = 'task';

/** Inside 'results': plugins see no values. */
export function isInResults(ring: McpRing): boolean {
  return RINGS.indexOf(ring) > RINGS.indexOf('results');
}
