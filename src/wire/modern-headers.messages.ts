import { shown } from './wire.messages.js';

/** What users read of the headers that mirror the body of a modern request. */
export const modernHeaderMessages = {
  // Requests
  mismatch: (what: string) =>
    `The headers of the request disagree with its body: ${what}. Send what the body says in the header, as "=?base64?…?=" if it is not plain ASCII.`,
  missing: (header: string, source: string, value: unknown) =>
    `the body has ${shown(value)} as ${source}, but the header ${header} is missing`,
  different: (header: string, got: string, source: string, value: unknown) =>
    `the header ${header} says ${shown(got)}, but the body has ${shown(value)} as ${source}`,
  badlyEncoded: (header: string, got: string) =>
    `the header ${header} is ${shown(got)}, which is neither ASCII nor the canonical base64 of a text in UTF-8`,
  unsafe: (header: string, source: string, value: unknown) =>
    `the body has ${shown(value)} as ${source}, which the header ${header} cannot say: integers in headers are at most 2^53 - 1 either way`,

  // Schemas
  unreachable: (at: string) =>
    `"x-mcp-header" stands at ${place(at)}, but it belongs to a property that is reached through "properties" alone: not to the root, and to nothing in arrays, alternatives, conditions or definitions ("$ref").`,
  noName: (at: string, got: unknown) =>
    `the "x-mcp-header" of ${place(at)} must be a text that is not empty, such as "Region"; got ${shown(got)}.`,
  notAToken: (at: string, name: string) =>
    `the "x-mcp-header" of ${place(at)} is ${shown(name)}, which cannot be part of the name of a header. Use letters, digits and hyphens.`,
  wrongType: (at: string, type: unknown) =>
    `${place(at)} has an "x-mcp-header", so its "type" must be "string", "integer" or "boolean"; got ${shown(type)}. Instead of null, let it be absent.`,
  sameName: (at: string, name: string, other: string) =>
    `the "x-mcp-header" of ${place(at)} is ${shown(name)}, and so is that of ${place(other)}; upper and lower case make no difference. Rename one.`,
};

function place(path: string): string {
  return path === '' ? 'the root' : shown(path);
}
