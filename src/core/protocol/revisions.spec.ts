import { SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';

import {
  allowsBatches,
  hasPrimingEvents,
  isLegacyRevision,
  isModernRevision,
  LATEST_LEGACY_REVISION,
  LEGACY_REVISIONS,
  MODERN_REVISIONS,
  negotiated,
} from './revisions.js';

describe('revisions', () => {
  it('revisions are known to the SDK', () => {
    expect(SUPPORTED_PROTOCOL_VERSIONS).toEqual(expect.arrayContaining([...LEGACY_REVISIONS]));
  });

  it('revisions belong to one era', () => {
    for (const revision of LEGACY_REVISIONS)
      expect([isLegacyRevision(revision), isModernRevision(revision)]).toEqual([true, false]);
    for (const revision of MODERN_REVISIONS)
      expect([isLegacyRevision(revision), isModernRevision(revision)]).toEqual([false, true]);
    for (const other of ['2024-11-05', '', '2025-11-25 ', undefined, null, 20251125, ['2025-11-25'], {}]) {
      expect([isLegacyRevision(other), isModernRevision(other)]).toEqual([false, false]);
    }
  });

  it('revisions are negotiated: the requested one if it has sessions, else the latest that has (S1)', () => {
    const initialize = (protocolVersion: unknown) =>
      ({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion, capabilities: {} } }) as const;
    for (const revision of LEGACY_REVISIONS) expect(negotiated(initialize(revision))).toEqual(initialize(revision));
    for (const other of ['2024-11-05', '2026-07-28', '2099-01-01', '', undefined, null, 7, {}]) {
      expect(negotiated(initialize(other))).toEqual(initialize('2025-11-25'));
    }
    expect(LATEST_LEGACY_REVISION).toBe('2025-11-25');
  });

  it.each([
    ['2025-03-26', true, false],
    ['2025-06-18', false, false],
    ['2025-11-25', false, true],
  ])('%s: batches %s, priming events %s', (revision, batches, priming) => {
    expect(allowsBatches(revision)).toBe(batches);
    expect(hasPrimingEvents(revision)).toBe(priming);
  });
});
