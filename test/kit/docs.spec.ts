// The tests that docs/testing.md shows are real ones.
// oxlint-disable-next-line import/no-unassigned-import
import '../../examples/snippets/parcels.module.spec.js';
