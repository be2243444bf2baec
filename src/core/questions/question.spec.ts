import { inputRequired, ProtocolError } from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { McpQuestion } from '../calls/mcp-questions.js';
import { Question, RequestedSchemas } from './question.js';

const schemas = new RequestedSchemas();
const of = (question: unknown, key = 'key'): Question => Question.of(key, question as McpQuestion, schemas);

const requestedSchema = { type: 'object', properties: { yes: { type: 'boolean' } }, required: ['yes'] } as const;
const FORM = { method: 'elicitation/create', params: { message: 'Sure?', requestedSchema } };
const VISIT = { method: 'elicitation/create', params: { mode: 'url', message: 'Pay', url: 'https://a.example/pay' } };
const messages = [{ role: 'user', content: { type: 'text', text: 'Hi' } }];
const SAMPLE = { method: 'sampling/createMessage', params: { messages, maxTokens: 5 } };
const tools = [{ name: 'look', inputSchema: { type: 'object' } }];
const SAMPLE_WITH_TOOLS = { method: 'sampling/createMessage', params: { ...SAMPLE.params, tools } };
const ROOTS = { method: 'roots/list', params: {} };

const text = { role: 'assistant', content: { type: 'text', text: 'Hello' }, model: 'm' };
const toolUse = { ...text, content: [{ type: 'tool_use', id: '1', name: 'look', input: {} }] };
const roots = { roots: [{ uri: 'file:///a' }] };

describe('a question', () => {
  it.each([FORM, VISIT, SAMPLE, SAMPLE_WITH_TOOLS, ROOTS])('a question is embedded as it is: %j', (question) => {
    expect(of(question).embedded).toEqual(
      question === FORM ? { ...FORM, params: { mode: 'form', ...FORM.params } } : question,
    );
  });

  it('a question may be what the SDK builds', () => {
    expect(
      of(inputRequired.elicit({ message: 'Sure?', requestedSchema: requestedSchema as never })).embedded.params,
    ).toEqual({
      mode: 'form',
      ...FORM.params,
    });
    expect(of(inputRequired.listRoots()).embedded).toEqual(ROOTS);
  });

  it('D22: a question may have a Standard Schema', () => {
    const params = { message: 'Sure?', requestedSchema: z.object({ yes: z.boolean() }) };
    const question = of({ method: 'elicitation/create', params });
    expect(question.embedded.params).toMatchObject({ requestedSchema });
    expect(question.accept({ action: 'accept', content: { yes: true } })).toBeDefined();
    expect(question.accept({ action: 'accept', content: { yes: 'no' } })).toBeUndefined();
  });

  it('D22: a question of a form says so on the wire of a session, also when it was embedded without', () => {
    const { mode: _, ...params } = of(FORM).embedded.params as { mode: string };
    expect(of(FORM).request).toEqual({ ...FORM, params: { mode: 'form', ...params } });
  });

  it('D22: a question of a URL has an id where the revision wants one', () => {
    expect(of(VISIT).request.params).toMatchObject({
      ...VISIT.params,
      elicitationId: expect.stringMatching(/^[\w-]{36}$/),
    });
    const named = of({ ...VISIT, params: { ...VISIT.params, elicitationId: 'mine' } });
    expect(named.request.params).toMatchObject({ elicitationId: 'mine' });
    expect(named.embedded).toEqual(VISIT);
  });

  it.each<[unknown, string | RegExp]>([
    [undefined, 'The question "key" is nothing.'],
    [null, 'The question "key" is null.'],
    [{ method: 'tools/call', params: {} }, /^The question "key" is \{.*A question is/],
    [{ method: 'elicitation/create' }, 'A question is { method, params }'],
    [{ method: 'sampling/createMessage', params: 'x' }, 'A question is { method, params }'],
    [
      { ...FORM, params: { message: 'x', requestedSchema: { type: 'nonsense' } } },
      'The "requestedSchema" of the question "key"',
    ],
    [{ ...FORM, params: { message: 'x' } }, 'The "requestedSchema" of the question "key"'],
    [{ ...FORM, params: { message: 'x', requestedSchema: z.object({ a: z.object({}) }) } }, 'flat primitive'],
  ])('a question cannot be %j', (question, message) => {
    expect(() => of(question)).toThrow(message);
  });

  it.each(['', '__proto__'])('a question cannot have the key %j', (key) => {
    expect(() => of(ROOTS, key)).toThrow(`${JSON.stringify(key)} cannot be the key`);
  });

  it.each(['constructor', 'toString', 'a b', '0'])('a question can have the key %j', (key) => {
    expect(of(ROOTS, key).key).toBe(key);
  });

  it('a question is the same as one that says the same', () => {
    expect(of(FORM).isSameAs(of(structuredClone(FORM)))).toBe(true);
    expect(of(FORM).isSameAs(of({ ...FORM, params: { ...FORM.params, message: 'Really?' } }))).toBe(false);
    expect(of(FORM).isSameAs(of(ROOTS))).toBe(false);
  });
});

describe('D21: a sampling question whose last messages are about tools', () => {
  const use = (...ids: string[]) => ({
    role: 'assistant',
    content: ids.map((id) => ({ type: 'tool_use', id, name: 'look', input: {} })),
  });
  const results = (...ids: string[]) => ({
    role: 'user',
    content: ids.map((toolUseId) => ({ type: 'tool_result', toolUseId, content: [] as unknown[] })),
  });
  const [hi] = messages;
  const sample = (...conversation: unknown[]) =>
    of({ ...SAMPLE_WITH_TOOLS, params: { messages: conversation, tools } });

  it.each<[string, unknown[]]>([
    ['a use that is answered', [hi, use('1'), results('1')]],
    ['uses that are answered in another order', [hi, use('1', '2'), results('2', '1')]],
    ['a single block instead of a list', [hi, { ...use(), content: use('1').content[0] }, results('1')]],
    ['a use that is the last', [hi, use('1')]],
    ['pairs that are longer ago are not looked at', [use('1'), hi, hi]],
    ['no messages', []],
  ])('a sampling question whose last messages are about tools is asked: %s', (_, conversation) => {
    expect(sample(...conversation).embedded.params).toMatchObject({ messages: conversation });
  });

  it.each<[string, unknown[], string]>([
    ['a result beside something else', [use('1'), mixed(results('1'))], 'it must contain nothing else'],
    ['a result at the beginning', [results('1')], 'has no "tool_use" that it answers'],
    ['a result after something else than a use', [use('1'), hi, results('1')], 'has no "tool_use" that it answers'],
    ['a use without its result', [use('1', '2'), results('1')], 'must answer exactly'],
    ['a result of another use', [use('1'), results('2')], 'must answer exactly'],
    ['a result too many', [use('1'), results('1', '2')], 'must answer exactly'],
    ['a use that is passed over', [use('1'), hi], 'must answer exactly'],
  ])(
    'a sampling question whose last messages are about tools is refused with -32602: %s',
    (_, conversation, message) => {
      const asked = (): unknown => sample(...conversation);
      expect(asked).toThrow(ProtocolError);
      expect(asked).toThrow(expect.objectContaining({ code: -32602, message: expect.stringContaining(message) }));
    },
  );

  function mixed({ role, content }: { role: string; content: unknown[] }) {
    return { role, content: [...content, { type: 'text', text: 'and this' }] };
  }
});

describe('D23: an answer', () => {
  it.each<[object, unknown]>([
    [FORM, { action: 'accept', content: { yes: true } }],
    [FORM, { action: 'decline' }],
    [FORM, { action: 'cancel', content: { yes: 'whatever' } }],
    [VISIT, { action: 'accept' }],
    [SAMPLE, text],
    [SAMPLE, { ...text, content: [text.content, { type: 'image', data: 'AAAA', mimeType: 'image/png' }] }],
    [SAMPLE, { ...text, content: [] }],
    [SAMPLE_WITH_TOOLS, text],
    [SAMPLE_WITH_TOOLS, toolUse],
    [ROOTS, roots],
    [ROOTS, { roots: [] }],
  ])('an answer to %j may be %j', (question, answer) => {
    expect(of(question).accept(answer)).toEqual(answer);
  });

  it.each<[object, unknown]>([
    ...[FORM, VISIT, SAMPLE, SAMPLE_WITH_TOOLS, ROOTS].flatMap((question): [object, unknown][] =>
      [undefined, null, 'yes', true, [], {}].map((answer) => [question, answer]),
    ),
    [FORM, { action: 'accept' }],
    [FORM, { action: 'accept', content: null }],
    [FORM, { action: 'accept', content: {} }],
    [FORM, { action: 'accept', content: { yes: 'true' } }],
    [FORM, { action: 'accept', content: JSON.parse('{"__proto__":{"yes":true}}') }],
    [FORM, { action: 'accepted', content: { yes: true } }],
    [FORM, roots],
    [FORM, text],
    [VISIT, { action: 'agree' }],
    [SAMPLE, toolUse],
    [SAMPLE, { ...text, content: toolUse.content[0] }],
    [SAMPLE, { ...text, content: [text.content, toolUse.content[0]] }],
    [SAMPLE, { ...text, content: [{ type: 'nonsense' }] }],
    [SAMPLE, { action: 'accept' }],
    [SAMPLE, { ...text, role: 'system' }],
    [ROOTS, { roots: [{ uri: 'https://a.example' }] }],
    [ROOTS, { roots: 'file:///a' }],
    [ROOTS, { action: 'accept' }],
  ])('an answer to %j is not %j', (question, answer) => {
    expect(of(question).accept(answer)).toBeUndefined();
  });
});
