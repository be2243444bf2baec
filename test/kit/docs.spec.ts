// The tests that docs/testing.md shows are real ones.
// oxlint-disable-next-line import/no-unassigned-import
import '../../examples/testing/src/parcels.module.spec.js';
// oxlint-disable-next-line import/no-unassigned-import
import '../../examples/testing/src/parcels.contract.spec.js';
