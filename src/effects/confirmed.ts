import type { ElicitResult } from '@modelcontextprotocol/server';
import type { McpClock } from '../core/common/clock.js';
import { randomToken } from '../core/common/random-token.js';
import type { McpContext } from '../core/calls/mcp-context.js';
import { McpServerRequestError } from '../core/calls/server-request.error.js';
import { missingCapabilities, requiredCapabilities } from '../core/protocol/client-capabilities.js';
import type { ConfirmMessage } from '../core/handlers/decorators/effect-options.js';
import type { McpRun } from '../core/plugins/mcp-plugin.js';
import type { ToolConfirm } from './checked-options.js';
import { MAX_MESSAGE, QuestionText } from './question-text.js';

/** `ctx.once()` keeps what was asked under this key, apart from those of handlers. */
const ASKED = 'nestjs-mcp-streamable:confirm';
const OPENED = `${ASKED}:opened`;
const IN_TIME = `${ASKED}:in-time`;
/** A form without fields: the answer is the action of the user. */
const FORM = { type: 'object', properties: {} } as const;

/** The question of one call, as the runs of its handler remember it. */
interface Asked {
  /** The key of the question. It is unguessable, so that an answer proves that this question was asked. */
  readonly key: string;
  readonly message: string;
}

/** When the time of a question is over, as the runs of its handler remember it. */
export interface QuestionTime {
  /** Milliseconds since the epoch, by the clock of `node`; absent if the store knows. */
  readonly until?: number | undefined;
  readonly node?: string | undefined;
}

/** What the nodes know of the questions of a tool. The methods reject with McpStateError. */
export interface QuestionRecords {
  /** Opens a question. @returns `full`: its caller has too many */
  open(question: string, ttlMs: number): Promise<'full' | QuestionTime>;
  /** Closes a question that is answered. @returns whether it was open */
  close(question: string, time: QuestionTime): Promise<boolean>;
  /** Returns whether this is the first use of a sealed state; `full`: its caller has used too many. */
  use(state: string): Promise<'full' | boolean>;
}

/** A page of the app on which the user confirms a call. */
export interface ConfirmPage {
  /** The id is unguessable. */
  readonly id: string;
  readonly message: string;
  readonly answer: 'open' | 'accept' | 'decline';
}

/** The pages of one call: of its caller, its tool and its arguments. The methods reject with McpStateError. */
export interface ConfirmPages {
  /** Finds the page of the call, or makes one. @returns `undefined` if the caller has too many */
  open(message: string): Promise<ConfirmPage | undefined>;
  /** Waits some seconds for the decision of a user who has opened the page. @returns `undefined` if the page is gone */
  decided(id: string, signal: AbortSignal): Promise<ConfirmPage['answer'] | undefined>;
  /** Uses the decision, and ends the page. @returns whether this call was the first */
  use(id: string): Promise<boolean>;
}

/**
 * # The user confirms before a tool runs (`confirm`)
 *
 *     asked ──accept──▶ the tool runs
 *        └──decline, cancel, too late, cannot be asked, used already──▶ a result that the model understands
 *
 * The question is one of the run, as those of `ctx.elicit()`. In the modern era the client holds it in the sealed state, which is
 * bound to the caller, the tool and the arguments. Two things are added:
 *
 * - each question has a key that cannot be guessed: an answer that comes without its question answers nothing
 * - each sealed state is used once: an old answer, also one that was declined, cannot be sent again
 *
 * A client that cannot show a form may be sent to a page of the app. What counts then is the decision on the page, which the app
 * records for its own user; that the client has opened the page is no consent.
 *
 * @returns the result of the call, if the tool must not run; `undefined`: the user has confirmed
 */
export async function confirmed(confirm: ToolConfirm, call: ConfirmedCall): Promise<object | undefined> {
  const { message, ttlMs } = confirm;
  const { run, context, args, records, clock } = call;
  const sent = run.takeRequestState();
  const isFirst = sent === undefined || (await records.use(sent));
  if (isFirst !== true) return refusal(isFirst === 'full' ? TOO_MANY_USED : USED);
  const asked = await context.once(ASKED, async (): Promise<Asked> => {
    const text =
      message instanceof QuestionText ? message.of(args, run.sent) : await messageFor(message, args, context);
    return { key: `confirm-${randomToken()}`, message: text };
  });
  if (asked.message.length > MAX_MESSAGE) return refusal(TOO_LONG);
  // The tool may be another one than when the user was asked.
  if (message instanceof QuestionText && message.of(args, run.sent) !== asked.message) return refusal(CHANGED);
  const params = { mode: 'form' as const, message: asked.message, requestedSchema: FORM };
  if (missingCapabilities(requiredCapabilities('elicitation/create', params), context.clientCapabilities))
    return confirm.whenUnable === 'url' ? onPage(confirm, call, asked.message) : refusal(UNABLE);
  const time = await context.once(OPENED, () => records.open(asked.key, ttlMs));
  if (time === 'full') return refusal(TOO_MANY_ASKED);
  const late = new AbortController();
  const timer = clock.setTimeout(() => late.abort(new Error('The time is over.')), ttlMs);
  try {
    const answer = (await run.ask(asked.key, { method: 'elicitation/create', params }, late.signal)) as ElicitResult;
    // Decided when the answer comes, and not again when the handler itself asks later.
    if (!(await context.once(IN_TIME, () => records.close(asked.key, time)))) return refusal(LATE);
    if (answer.action === 'accept') return undefined;
    return refusal(answer.action === 'decline' ? DECLINED : DISMISSED);
  } catch (error) {
    if (context.aborted) throw error;
    if (late.signal.aborted) return refusal(LATE);
    if (!(error instanceof McpServerRequestError)) throw error;
    return refusal(`The user could not be asked: ${error.message}`);
  } finally {
    clock.clear(timer);
  }
}

async function onPage(confirm: ToolConfirm, call: ConfirmedCall, asked: string): Promise<object | undefined> {
  const { run, context, pages } = call;
  if (!pages) return refusal(ANONYMOUS);
  const page = await pages.open(asked);
  if (!page) return refusal(TOO_MANY);
  const { id, message } = page;
  const url = confirm.url!(id);
  const params = { mode: 'url' as const, message, url, elicitationId: id };
  let { answer } = page;
  const opens = !missingCapabilities(requiredCapabilities('elicitation/create', params), context.clientCapabilities);
  if (answer === 'open' && opens) {
    const { action } = (await run.ask(`confirm-${id}`, { method: 'elicitation/create', params })) as ElicitResult;
    if (action !== 'accept') return refusal(action === 'decline' ? DECLINED : DISMISSED);
    const decided = await pages.decided(id, context.signal);
    if (!decided) return refusal(GONE);
    answer = decided;
  }
  if (answer === 'open') return refusal(`${ON_PAGE} ${url}`, ON_PAGE_NEXT);
  if (!(await pages.use(id))) return refusal(USED);
  return answer === 'accept' ? undefined : refusal(DECLINED);
}

/** One call of a tool that asks. */
interface ConfirmedCall {
  readonly run: McpRun;
  readonly context: McpContext;
  /** The validated arguments. */
  readonly args: unknown;
  readonly records: QuestionRecords;
  /** Absent for an anonymous caller: a page would not know its user. */
  readonly pages?: ConfirmPages | undefined;
  readonly clock: McpClock;
}

async function messageFor(message: ConfirmMessage<never>, args: unknown, context: McpContext): Promise<string> {
  const text: unknown = await message(args as never, context);
  if (typeof text === 'string' && text.trim() !== '') return text;
  throw new TypeError('The "confirm" of the tool must return the question for the user, a text that is not empty.');
}

function refusal(reason: string, next = ''): object {
  const text = `${reason} The tool did not run, and nothing was changed.${next}`;
  return { content: [{ type: 'text', text }], isError: true };
}

const UNABLE =
  'This tool runs only after the user has confirmed it, and this client cannot ask its user: it did not declare the capability "elicitation".';
const DECLINED = 'The user was asked to confirm this call, and declined. Do not repeat it unless the user asks for it.';
const DISMISSED = 'The user was asked to confirm this call, and closed the question without an answer.';
const LATE = 'The user did not confirm this call in time. Call the tool again to ask again.';
const USED = 'This confirmation was used already: it is good for one call. Call the tool again to ask again.';
const CHANGED =
  'This tool has changed since the user was asked to confirm this call. Call the tool again to ask again.';
const GONE =
  'The page on which the user confirms this call is over: its time has passed, or another call has used it. Call the tool again to ask again.';
const TOO_MANY_ASKED = 'Too many questions to the user of this caller are open. Call the tool again in some minutes.';
const TOO_MANY_USED =
  'Too many confirmations of this caller were answered within a short time. Call the tool again in some minutes.';
const TOO_LONG = `The question for the user would have more than ${MAX_MESSAGE} characters. Call the tool with shorter arguments.`;
const ANONYMOUS =
  'This tool runs only after the user has confirmed it, on a page, and this caller is anonymous. Sign in, and call again.';
const TOO_MANY = 'Too many calls wait for the confirmation of this user.';
const ON_PAGE = 'The user must confirm this call on this page:';
const ON_PAGE_NEXT =
  ' Show the user the link. When the user has confirmed, call the tool again, with the same arguments.';
