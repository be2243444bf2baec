/** The capability a client must have declared for a request of the server to make sense to it (behaviour P7). */
const REQUIRED: ReadonlyMap<string, string> = new Map([
  ['sampling/createMessage', 'sampling'],
  ['elicitation/create', 'elicitation'],
  ['roots/list', 'roots'],
]);

/** @returns the capability that is missing, if one is */
export function missingCapability(method: string, declared: Readonly<Record<string, unknown>>): string | undefined {
  const required = REQUIRED.get(method);
  return required !== undefined && declared[required] === undefined ? required : undefined;
}
