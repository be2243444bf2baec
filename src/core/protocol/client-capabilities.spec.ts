import { describe, expect, it } from 'vitest';
import {
  type Capabilities,
  capabilityNames,
  missingCapabilities,
  requiredCapabilities,
} from './client-capabilities.js';

interface Asked {
  readonly method: string;
  readonly params?: Record<string, unknown>;
}

const FORM: Asked = { method: 'elicitation/create', params: { message: 'Sure?', requestedSchema: {} } };
const VISIT: Asked = {
  method: 'elicitation/create',
  params: { mode: 'url', message: 'Pay', url: 'https://a.example' },
};
const SAMPLE: Asked = { method: 'sampling/createMessage', params: { messages: [], maxTokens: 5 } };
const SAMPLE_WITH_TOOLS: Asked = { ...SAMPLE, params: { ...SAMPLE.params, tools: [] } };
const SAMPLE_WITH_CHOICE: Asked = { ...SAMPLE, params: { ...SAMPLE.params, toolChoice: { mode: 'none' } } };
const ROOTS: Asked = { method: 'roots/list' };

const missing = ({ method, params }: Asked, declared: object) =>
  missingCapabilities(requiredCapabilities(method, params), declared as Capabilities);

describe('D20: missing capabilities', () => {
  it.each<[string, Asked, object, object | undefined]>([
    ['none declared', FORM, {}, { elicitation: { form: {} } }],
    ['a bare elicitation is forms', FORM, { elicitation: {} }, undefined],
    ['forms', FORM, { elicitation: { form: {} } }, undefined],
    ['a form that says so', { ...FORM, params: { mode: 'form' } }, { elicitation: { form: {} } }, undefined],
    ['URLs are no forms', FORM, { elicitation: { url: {} } }, { elicitation: { form: {} } }],
    ['a bare elicitation is no URLs', VISIT, { elicitation: {} }, { elicitation: { url: {} } }],
    ['forms are no URLs', VISIT, { elicitation: { form: {} } }, { elicitation: { url: {} } }],
    ['both', VISIT, { elicitation: { form: {}, url: {} } }, undefined],
    ['sampling', SAMPLE, { sampling: {} }, undefined],
    ['no sampling', SAMPLE, { elicitation: {} }, { sampling: {} }],
    ['sampling without tools', SAMPLE_WITH_TOOLS, { sampling: {} }, { sampling: { tools: {} } }],
    ['a choice of tools is tools', SAMPLE_WITH_CHOICE, { sampling: {} }, { sampling: { tools: {} } }],
    ['sampling with tools', SAMPLE_WITH_TOOLS, { sampling: { tools: {} } }, undefined],
    ['roots', ROOTS, { roots: { listChanged: true } }, undefined],
    ['no roots', ROOTS, {}, { roots: {} }],
    ['inherited names', ROOTS, Object.create({ roots: {} }) as object, { roots: {} }],
    ['inherited members', VISIT, { elicitation: Object.create({ url: {} }) as object }, { elicitation: { url: {} } }],
    ['a name that is true', ROOTS, { roots: true }, { roots: {} }],
    ['a name that is null', FORM, { elicitation: null }, { elicitation: { form: {} } }],
    ['a ping', { method: 'ping' }, {}, undefined],
    ['a method of an extension', { method: 'x.example/ask', params: { mode: 'url' } }, {}, undefined],
  ])('%s', (_, asked, declared, expected) => {
    expect(missing(asked, declared)).toEqual(expected);
  });
});

it('missing capabilities are named by their members, where the client declared the rest', () => {
  const missing = { elicitation: { url: {} }, roots: {}, sampling: { tools: {}, context: {} } };
  expect(capabilityNames(missing, { elicitation: {}, sampling: {} })).toBe(
    'elicitation.url, roots, sampling.tools, sampling.context',
  );
  expect(capabilityNames(missing, {})).toBe('elicitation, roots, sampling');
});
