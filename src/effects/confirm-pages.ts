import type { McpClock } from '../core/common/clock.js';
import { randomToken, TOKEN_LENGTH } from '../core/common/random-token.js';
import type { ConfirmPage, ConfirmPages } from './confirmed.js';
import type { ClaimStore } from './claim-store.js';
import { isObject } from '../core/protocol/json-rpc.js';
import { hashOf } from '../core/questions/state/stored-states.js';

/** A caller has at most so many pages at a time. */
const MAX_PAGES = 100;
/** The store is asked so often whether the user has decided on the page, for so many milliseconds. */
const LOOK_MS = 1_000;
const WAIT_MS = 30_000;
/** Matches the ids of pages. Any other text is refused before the store is asked. */
const ID = new RegExp(`^[A-Za-z0-9]{${TOKEN_LENGTH}}$`);

/** It is remembered for so many milliseconds longer than a page lives that it was used: no node takes that long between two commands. */
const USED_MS = 600_000;

/** What the store has of a page. It is not changed: when it is gone, its time is over by the clock of the store, or it was used. */
interface StoredPage {
  readonly tool: string;
  readonly message: string;
  readonly ttlMs: number;
}

/** The call that a page is for: its caller, its tool, a digest of its arguments. */
interface PageCall {
  readonly principal: string;
  readonly tool: string;
  readonly call: string;
  /** The user may decide for so many milliseconds. */
  readonly ttlMs: number;
}

/**
 * # Pages of the app on which users confirm calls (`whenUnable: 'url'`)
 *
 *     open ──accept──▶ accepted ──the call is made again──▶ used
 *       └──decline──▶ declined ──the call is made again──▶ used
 *
 * A page belongs to the caller, the tool and the arguments: they find it by `call`, the app by its id. Both lie below the caller, so
 * that no id is one of another user.
 *
 * Invariant: each arrow is one `add()` of a key of its own. So a form that is sent twice decides once, however slow the store is, and
 * one call of all nodes uses the decision.
 */
export class StoredPages {
  constructor(
    private readonly store: ClaimStore,
    private readonly clock: McpClock,
    private readonly endpoint: string,
  ) {}

  /** Returns the pages of one call. */
  of(about: PageCall): ConfirmPages {
    const { principal, ttlMs } = about;
    const pageOf = `${this.#ownerOf(principal)}:d.${hashOf(JSON.stringify([about.tool, about.call]))}`;
    return {
      open: (message) => this.#open(about, message, pageOf),
      decided: (id, signal) => this.#decided(principal, id, signal),
      use: async (id) => {
        const isFirst = await this.#add(principal, `u.${id}`, true, ttlMs + USED_MS);
        // A page that cannot be removed is not used again.
        await this.#close(principal, id, pageOf).catch(() => {});
        return isFirst;
      },
    };
  }

  async find(principal: string, id: string): Promise<(ConfirmPage & StoredPage) | undefined> {
    if (!ID.test(id)) return undefined;
    const [page, answer] = await Promise.all([
      this.store.get(this.#keyOf(principal, id)),
      this.store.get(`${this.#answersOf(principal)}:a.${id}`),
    ]);
    if (!isPage(page)) return undefined;
    const { tool, message, ttlMs } = page;
    return { id, tool, message, ttlMs, answer: answer === 'accept' || answer === 'decline' ? answer : 'open' };
  }

  /** @returns whether the page was open */
  async answer(principal: string, id: string, answer: 'accept' | 'decline'): Promise<boolean> {
    const page = await this.find(principal, id);
    return page?.answer === 'open' && this.#add(principal, `a.${id}`, answer, page.ttlMs);
  }

  async #open({ principal, tool, ttlMs }: PageCall, message: string, pageOf: string): Promise<ConfirmPage | undefined> {
    const known = await this.#leadsTo(pageOf, principal);
    if (known) return known;
    const quota = { owner: this.#ownerOf(principal), max: 2 * MAX_PAGES };
    const id = randomToken();
    const key = this.#keyOf(principal, id);
    const stored: StoredPage = { tool, message, ttlMs };
    const page: ConfirmPage = { id, message, answer: 'open' };
    if ((await this.store.set(key, stored, ttlMs, quota)) === 'full') return undefined;
    const added = await this.store.add(pageOf, id, ttlMs, quota);
    if (added === true) return page;
    // Another call has opened a page at the same moment. Or what is there leads to a page that is over.
    const theirs = await this.#leadsTo(pageOf, principal);
    if (added === 'full' || theirs) await this.store.delete(key);
    else await this.store.set(pageOf, id, ttlMs, quota);
    return added === 'full' ? undefined : (theirs ?? page);
  }

  async #leadsTo(pageOf: string, principal: string): Promise<ConfirmPage | undefined> {
    const id = await this.store.get(pageOf);
    return typeof id === 'string' ? this.find(principal, id) : undefined;
  }

  /** Removes a page that was used: the next call opens another one. */
  async #close(principal: string, id: string, pageOf: string): Promise<void> {
    await this.store.delete(this.#keyOf(principal, id));
    if ((await this.store.get(pageOf)) === id) await this.store.delete(pageOf);
  }

  /** Writes down what happens to a page once. @returns whether it had not happened */
  async #add(principal: string, what: string, value: unknown, ttlMs: number): Promise<boolean> {
    // There are no more of these than there were pages.
    const quota = { owner: this.#answersOf(principal), max: Infinity };
    return (await this.store.add(`${quota.owner}:${what}`, value, ttlMs, quota)) === true;
  }

  /** Waits a moment for the decision of a user who has opened the page. */
  async #decided(principal: string, id: string, signal: AbortSignal): Promise<ConfirmPage['answer'] | undefined> {
    for (let waited = 0; ; waited += LOOK_MS) {
      const answer = (await this.find(principal, id))?.answer;
      if (answer !== 'open' || waited >= WAIT_MS || signal.aborted) return answer;
      await new Promise<void>((resolve) => {
        const over = (): void => {
          this.clock.clear(timer);
          signal.removeEventListener('abort', over);
          resolve();
        };
        const timer = this.clock.setTimeout(over, LOOK_MS);
        signal.addEventListener('abort', over);
      });
    }
  }

  #keyOf(principal: string, id: string): string {
    return `${this.#ownerOf(principal)}:p.${id}`;
  }

  #ownerOf(principal: string): string {
    return `once.${this.endpoint}:${hashOf(principal)}.pages`;
  }

  #answersOf(principal: string): string {
    return `${this.#ownerOf(principal)}.a`;
  }
}

/** Another version may have written what is under the key. */
function isPage(value: unknown): value is StoredPage {
  if (!isObject(value)) return false;
  const { tool, message, ttlMs } = value;
  return typeof tool === 'string' && typeof message === 'string' && typeof ttlMs === 'number' && ttlMs > 0;
}
