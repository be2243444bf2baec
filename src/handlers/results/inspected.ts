import { inspect } from 'node:util';

/** An error for the log. Never throws: an error may when it is looked at, and what it throws is not the client's either. */
export function inspected(error: unknown): string {
  try {
    return inspect(error);
  } catch {
    return 'an error that cannot be shown';
  }
}
