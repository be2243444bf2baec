// The tests of the example, which it has in `npm test`, on the sources as they are.
// oxlint-disable-next-line import/no-unassigned-import
import '../../examples/saas/src/app.spec.js';
