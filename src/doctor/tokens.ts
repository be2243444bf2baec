import { BYTES_PER_TOKEN, tokensOf } from '../core/protocol/values.js';

/** Clients cut or refuse results of more tokens. @see https://claude.com/docs/connectors/building */
export const MAX_RESULT_TOKENS = 25_000;

/** Results of fewer bytes are within the limit. */
export const MAX_RESULT_BYTES = MAX_RESULT_TOKENS * BYTES_PER_TOKEN;

/**
 * Estimates the tokens of a tool's result. Images and sounds are not counted: models do not read them as text. Structured
 * content and the texts that repeat it count once.
 */
export function tokensOfResult(result: object): number {
  const { content, structuredContent } = result as { content?: unknown; structuredContent?: unknown };
  const texts = Array.isArray(content) ? (content as unknown[]).map(textOf) : [];
  const inTexts = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  const structured = structuredContent === undefined ? 0 : Buffer.byteLength(JSON.stringify(structuredContent));
  return tokensOf(Math.max(inTexts, structured));
}

function textOf(block: unknown): string {
  const { text, resource } = block as { text?: unknown; resource?: { text?: unknown } };
  const given = text ?? resource?.text;
  return typeof given === 'string' ? given : '';
}
