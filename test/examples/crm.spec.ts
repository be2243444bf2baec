import { findPostgres } from '../../examples/crm/src/database/throw-away.js';
import { describePostgres } from '../support/postgres.js';

// The tests of the example, which it has in `npm test`, on the sources as they are.
if (findPostgres() === undefined) describePostgres('the CRM', () => {});
else await import('../../examples/crm/src/app.spec.js');
