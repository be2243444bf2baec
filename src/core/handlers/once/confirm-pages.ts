import type { McpClock } from '../../common/clock.js';
import { randomToken, TOKEN_LENGTH } from '../../common/random-token.js';
import type { ConfirmPage, ConfirmPages } from '../questions/confirm.js';
import type { ClaimStore } from './claim-store.js';
import { hashOf } from '../state/stored-states.js';

/** A caller has at most so many pages at a time. */
const MAX_PAGES = 100;
/** The store is asked so often whether the user has decided on the page, for so many milliseconds. */
const LOOK_MS = 1_000;
const WAIT_MS = 30_000;
/** Matches the ids of pages. Any other text is refused before the store is asked. */
const ID = new RegExp(`^[A-Za-z0-9]{${TOKEN_LENGTH}}$`);

/** What the store has of a page. */
interface StoredPage {
  readonly tool: string;
  readonly message: string;
  readonly answer: ConfirmPage['answer'];
  readonly ttlMs: number;
  /** The time until which the user may decide, in milliseconds since the epoch. */
  readonly until: number;
}

/** The call that a page is for: its caller, its tool, a digest of its arguments. */
interface PageCall {
  readonly principal: string;
  readonly tool: string;
  readonly call: string;
}

/**
 * # Pages of the app on which users confirm calls (`whenUnable: 'url'`)
 *
 *     open ──accept──▶ accepted ──the call is made again──▶ (nothing)
 *       └──decline──▶ declined ──the call is made again──▶ (nothing)
 *
 * A page belongs to the caller, the tool and the arguments: they find it by `call`, the app by its id. Both lie below the caller, so
 * that no id is one of another user. An answer is used by the one who deletes the page.
 */
export class StoredPages {
  constructor(
    private readonly store: ClaimStore,
    private readonly clock: McpClock,
    private readonly endpoint: string,
  ) {}

  /** Returns the pages of one call. */
  of(about: PageCall): ConfirmPages {
    const pageOf = `${this.#ownerOf(about.principal)}:d.${hashOf(JSON.stringify([about.tool, about.call]))}`;
    return {
      open: async (message, ttlMs) => {
        const known = (await this.store.get(pageOf)) as string | undefined;
        const page = known === undefined ? undefined : await this.find(about.principal, known);
        if (page) return { id: known!, message: page.message, answer: page.answer };
        const id = randomToken();
        const fresh: StoredPage = { tool: about.tool, message, answer: 'open', ttlMs, until: this.clock.now() + ttlMs };
        const quota = { owner: this.#ownerOf(about.principal), max: 2 * MAX_PAGES };
        for (const [key, value] of [
          [this.#keyOf(about.principal, id), fresh],
          [pageOf, id],
        ] as const)
          if ((await this.store.set(key, value, ttlMs, quota)) === 'full') return undefined;
        return { id, message, answer: 'open' };
      },
      decided: (id, signal) => this.#decided(about.principal, id, signal),
      use: async (id) => {
        const isFirst = await this.store.delete(this.#keyOf(about.principal, id));
        await this.store.delete(pageOf);
        return isFirst;
      },
    };
  }

  async find(principal: string, id: string): Promise<StoredPage | undefined> {
    if (!ID.test(id)) return undefined;
    const page = (await this.store.get(this.#keyOf(principal, id))) as StoredPage | undefined;
    return page && page.until > this.clock.now() ? page : undefined;
  }

  /** @returns whether the page was open */
  async answer(principal: string, id: string, answer: 'accept' | 'decline'): Promise<boolean> {
    const page = await this.find(principal, id);
    if (page?.answer !== 'open') return false;
    const quota = { owner: this.#ownerOf(principal), max: Infinity };
    await this.store.set(this.#keyOf(principal, id), { ...page, answer }, page.ttlMs, quota);
    return true;
  }

  /** Waits a moment for the decision of a user who has opened the page. */
  async #decided(principal: string, id: string, signal: AbortSignal): Promise<ConfirmPage['answer']> {
    for (let waited = 0; ; waited += LOOK_MS) {
      const answer = (await this.find(principal, id))?.answer ?? 'open';
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
}
