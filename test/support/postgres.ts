import { findPostgres, startThrowAwayDatabase } from '../../examples/crm/src/database/throw-away.js';
import { describeWith } from './needs.js';

/** A PostgreSQL that is started for the tests of a file. */
export { startThrowAwayDatabase as startPostgres };

/** Tests on a real PostgreSQL. Without its programs they are skipped, loudly; in CI they fail. */
export function describePostgres(name: string, body: () => void): void {
  const missing = 'No PostgreSQL was found. Install the package postgresql of Debian, or have pg_ctl in the path.';
  describeWith(findPostgres() === undefined ? missing : undefined, name, body);
}
