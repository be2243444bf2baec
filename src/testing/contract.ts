/**
 * The contract tests use this part of a test runner: `describe` and `it` of vitest, jest, mocha or `node:test`.
 * Assertions are those of `node:assert`.
 *
 * @publicApi
 */
export interface McpContractTestApi {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: () => Promise<void>): unknown;
}

/** Maps sentences of a contract to the checks of each. */
export type ContractTests<Harness> = Record<string, (harness: Harness) => Promise<void>>;

/**
 * Registers the tests. Each gets a harness of its own, which is disposed of also when the test fails.
 *
 * @param api `undefined`: the globals of the test runner
 * @internal
 */
export function runContract<Harness extends { dispose(): Promise<void> }>(
  name: string,
  make: () => Promise<Harness>,
  chapters: Record<string, ContractTests<Harness>>,
  api: McpContractTestApi = globalThis as unknown as McpContractTestApi,
): void {
  if (typeof api.describe !== 'function' || typeof api.it !== 'function') {
    throw new TypeError(
      `The contract test "${name}" finds no global "describe" and "it". Import them from your test runner and pass { describe, it }.`,
    );
  }
  api.describe(name, () => {
    for (const [chapter, tests] of Object.entries(chapters)) {
      api.describe(chapter, () => {
        for (const [sentence, check] of Object.entries(tests)) {
          api.it(sentence, async () => {
            const harness = await make();
            try {
              await check(harness);
            } finally {
              await harness.dispose();
            }
          });
        }
      });
    }
  });
}

/** A client may send these ids: names of `Object.prototype`, separators, patterns, long ones. */
export const FORGED_IDS: readonly string[] = [
  'constructor',
  '__proto__',
  'hasOwnProperty',
  'toString',
  'a:b',
  'a:b:c',
  'b:c',
  '{a}b',
  '*',
  'line\nbreak',
  'ünï-😀-\u2028',
  'x'.repeat(5_000),
];
