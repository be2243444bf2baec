import { describe, expect, it } from 'vitest';
import type { JsonRpcRequest } from '../../protocol/json-rpc.js';
import { ChangeSet, deliverable, isEmpty, requestedFilter, withUris } from './subscription-filter.js';

const listen = (params?: object): JsonRpcRequest =>
  ({ jsonrpc: '2.0', id: 'listen:1', method: 'subscriptions/listen', params }) as JsonRpcRequest;
const EVERYTHING = {
  toolsListChanged: true,
  promptsListChanged: true,
  resourcesListChanged: true,
  resourceSubscriptions: ['a://1', 'a://2'],
};

describe('requestedFilter', () => {
  it('requestedFilter takes what the specification knows', () => {
    expect(requestedFilter(listen({ notifications: EVERYTHING }))).toEqual(EVERYTHING);
    expect(requestedFilter(listen({ notifications: {} }))).toEqual({});
  });

  it('requestedFilter keeps flags only if true, each URI once, and no other field', () => {
    const notifications = {
      toolsListChanged: false,
      promptsListChanged: true,
      resourceSubscriptions: ['a://1', 'a://2', 'a://1'],
      taskIds: ['1'],
      constructor: true,
    };
    expect(requestedFilter(listen({ notifications }))).toEqual({
      promptsListChanged: true,
      resourceSubscriptions: ['a://1', 'a://2'],
    });
    expect(requestedFilter(listen({ notifications: { resourceSubscriptions: [] } }))).toEqual({});
  });

  it.each([
    ['no params', undefined],
    ['no filter', {}],
    ['null', { notifications: null }],
    ['a list', { notifications: ['toolsListChanged'] }],
    ['a text', { notifications: 'toolsListChanged' }],
    ['a flag that is a text', { notifications: { toolsListChanged: 'true' } }],
    ['a flag that is null', { notifications: { promptsListChanged: null } }],
    ['URIs that are one', { notifications: { resourceSubscriptions: 'a://1' } }],
    ['URIs that are null', { notifications: { resourceSubscriptions: null } }],
    ['a URI that is a number', { notifications: { resourceSubscriptions: ['a://1', 2] } }],
    ['too many URIs', { notifications: { resourceSubscriptions: Array.from({ length: 1_001 }, () => 'a://1') } }],
    ['a URI that is too long', { notifications: { resourceSubscriptions: ['x'.repeat(2_049)] } }],
  ])('requestedFilter refuses %s', (_what, params) => {
    expect(() => requestedFilter(listen(params))).toThrow(
      expect.objectContaining({ code: 'INVALID_PARAMS', rpcCode: -32602 }) as Error,
    );
  });

  it('M7: requestedFilter refuses more ids than a topic takes', () => {
    const tasks = (count: number) => ({ notifications: { taskIds: Array.from({ length: count }, (_, n) => `t${n}`) } });
    const topics = [['taskIds', { maxIds: 100 }]] as const;
    expect(() => requestedFilter(listen(tasks(101)), topics)).toThrow('taskIds has 101 ids; the maximum is 100');
    expect(requestedFilter(listen(tasks(100)), topics)['taskIds']).toHaveLength(100);
  });

  it('requestedFilter takes as much as is allowed', () => {
    const uris = Array.from({ length: 1_000 }, (_, n) => `a://${n}`.padEnd(2_048, 'x'));
    const { resourceSubscriptions } = requestedFilter(listen({ notifications: { resourceSubscriptions: uris } }));
    expect(resourceSubscriptions).toEqual(uris);
  });
});

describe('deliverable', () => {
  it('deliverable leaves what the server declares', () => {
    const all = { listChanged: true };
    expect(deliverable(EVERYTHING, { tools: all, prompts: all, resources: { ...all, subscribe: true } })).toEqual(
      EVERYTHING,
    );
    expect(deliverable(EVERYTHING, { tools: {}, prompts: all, resources: { subscribe: false } })).toEqual({
      promptsListChanged: true,
    });
    expect(deliverable(EVERYTHING, { resources: { subscribe: true } })).toEqual(
      withUris({}, EVERYTHING.resourceSubscriptions),
    );
    expect(isEmpty(deliverable(EVERYTHING, {}))).toBe(true);
  });

  it('deliverable does not touch what was requested', () => {
    const before = structuredClone(EVERYTHING);
    deliverable(EVERYTHING, {});
    expect(EVERYTHING).toEqual(before);
  });
});

describe('ChangeSet', () => {
  it('ChangeSet has what a filter accepts, and nothing that looks like it', () => {
    const accepted = ChangeSet.acceptedBy({ toolsListChanged: true, resourceSubscriptions: ['prompts', 'a://1'] });
    expect([accepted.has({ list: 'tools' }), accepted.has({ uri: 'a://1' }), accepted.has({ uri: 'prompts' })]).toEqual(
      [true, true, true],
    );
    expect([accepted.has({ list: 'prompts' }), accepted.has({ uri: 'tools' }), accepted.has({ uri: 'a://' })]).toEqual([
      false,
      false,
      false,
    ]);
    expect([...accepted]).toHaveLength(3);
  });

  it('ChangeSet is walked through in order, also while it is emptied', () => {
    const changes = new ChangeSet();
    for (const uri of ['a://2', 'a://1', 'a://2']) changes.add({ uri });
    changes.add({ list: 'prompts' });
    const seen: unknown[] = [];
    for (const change of changes) {
      seen.push(change);
      changes.delete(change);
    }
    expect(seen).toEqual([{ list: 'prompts' }, { uri: 'a://2' }, { uri: 'a://1' }]);
    expect([...changes]).toEqual([]);
    changes.add({ list: 'tools' });
    changes.clear();
    expect([...changes]).toEqual([]);
  });
});
