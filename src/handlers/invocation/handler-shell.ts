import type { ParamLayout } from '../params/param-layout.js';
import { HandlerCancelled } from '../results/handler-signal.js';
import type { Invocation } from './invocation.js';
import type { Method } from './nest-metadata.js';

/**
 * What Nest calls in place of a method: `ExternalContextCreator` keeps only the last value of an Observable, so that
 * progress would be lost and nobody could cancel. The shell drains the result itself.
 *
 * Its prototype is the method: metadata, name and length are found through it, so that a `Reflector` sees what the
 * decorators said.
 */
export function shellOf(method: Method, layout: ParamLayout): Method {
  const { contextAt, ticketAt } = layout;
  return standIn(method, function shell(this: unknown, ...params: unknown[]): unknown {
    const invocation = (params[ticketAt] as Ticket)();
    // Guards and pipes may have taken their time: what nobody waits for any more must not have an effect.
    const { context } = invocation;
    if (context.aborted) throw new HandlerCancelled(context.signal.reason);
    for (const index of contextAt) params[index] = context;
    params.length = ticketAt;
    return invocation.settle(Reflect.apply(method, this, params));
  });
}

/** What Nest calls when only guards are asked. */
export function emptyShellOf(method: Method): Method {
  return standIn(method, () => undefined);
}

/** How an invocation travels to the shell: as the value of one more parameter. */
export type Ticket = () => Invocation;

function standIn(method: Method, shell: Method): Method {
  for (const key of ['name', 'length']) Reflect.deleteProperty(shell, key);
  Object.setPrototypeOf(shell, method);
  return shell;
}
