/** One thing that is wrong with a value. */
interface Problem {
  /** Where, such as `address.street`; empty: in the value as a whole. */
  readonly path: string;
  readonly message: string;
}

/** How many problems a message names. */
const MAX_PROBLEMS = 8;
const MAX_PROBLEM_CHARACTERS = 200;

/** The first problems, shortened. */
export function problemsText(problems: readonly Problem[]): string {
  const first = problems.slice(0, MAX_PROBLEMS).map(({ path, message }) => {
    // Some libraries say where in the message itself.
    const text = (path === '' || message.startsWith(path) ? message : `${path}: ${message}`).replace(/\.$/, '');
    return text.length <= MAX_PROBLEM_CHARACTERS ? text : `${text.slice(0, MAX_PROBLEM_CHARACTERS)}…`;
  });
  const more = problems.length - first.length;
  return first.join('; ') + (more > 0 ? `; and ${more} more` : '');
}

export function namesText(known: readonly string[]): string {
  return known.length === 0 ? 'There are none.' : `There are: ${known.map((name) => `"${name}"`).join(', ')}.`;
}
