import type { ContentBlock } from '@modelcontextprotocol/server';
import { checkedBySpec, type SpecTypeName } from '../../wire/spec.js';
import { invocationMessages } from '../invocation.messages.js';
import { HandlerResultError } from './handler-result.error.js';

/** What each type of block must have besides its type. */
const BLOCK_FIELDS: Readonly<Record<string, (block: Record<string, unknown>) => boolean>> = {
  text: ({ text }) => typeof text === 'string',
  image: ({ data, mimeType }) => typeof data === 'string' && typeof mimeType === 'string',
  audio: ({ data, mimeType }) => typeof data === 'string' && typeof mimeType === 'string',
  resource: ({ resource }) => isRecord(resource) && typeof resource['uri'] === 'string',
  resource_link: ({ uri, name }) => typeof uri === 'string' && typeof name === 'string',
};

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isContentBlock(value: unknown): value is ContentBlock {
  if (!isRecord(value) || typeof value['type'] !== 'string') return false;
  return Object.hasOwn(BLOCK_FIELDS, value['type']) && BLOCK_FIELDS[value['type']]!(value);
}

export function isContentBlocks(value: unknown): value is ContentBlock[] {
  return Array.isArray(value) && isDense(value) && value.every(isContentBlock);
}

/** Holes are skipped by `every()`, and `null` in JSON. */
export function isDense(array: readonly unknown[]): boolean {
  return !array.includes(undefined);
}

export function textBlock(text: string): ContentBlock {
  return { type: 'text', text };
}

/**
 * Checks a result that a handler made itself, of which the compiler saw little. A client would refuse it, and the operator
 * would not hear of it.
 *
 * @throws HandlerResultError
 */
export function assertSpecified(type: SpecTypeName, kind: 'tool' | 'resource' | 'prompt', result: object): void {
  const { problem } = checkedBySpec(type, result);
  if (problem) throw new HandlerResultError(invocationMessages.notAResult(kind, `${problem.path}: ${problem.message}`));
}
