import { list, McpOptionError } from './options.js';

/** The row of the option `decorators`, for the controllers that modules make. */
export const DECORATORS = list<readonly ClassDecorator[], readonly ClassDecorator[]>(
  [],
  (decorator) => typeof decorator === 'function',
  'an array of class decorators, such as [Public(), SkipThrottle()]: what a decorator returns, not the decorator itself',
);

/**
 * Applies decorators in the order in which they would stand above the class.
 *
 * @throws McpOptionError for one that is not for classes
 */
export function Decorated(decorators: readonly ClassDecorator[]): ClassDecorator {
  return (target) => {
    const refusal = (reason: string): McpOptionError =>
      new McpOptionError(
        'decorators',
        `The option "decorators" contains a decorator that cannot be applied to the controller: ${reason}. Give class decorators, such as [Public(), SkipThrottle()].`,
      );
    let decorated: unknown;
    try {
      decorated = Reflect.decorate([...decorators], target);
    } catch (error) {
      throw refusal(String(error));
    }
    if (decorated === target || (decorated as { readonly prototype?: unknown }).prototype instanceof target)
      return decorated as typeof target;
    throw refusal('it returned something other than the class');
  };
}
