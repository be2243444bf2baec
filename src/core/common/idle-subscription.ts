import { Subscription, type TeardownLogic } from 'rxjs';

/**
 * A subscription of which an app has many thousands, nearly all with one teardown. It keeps that one without an array, which would take
 * 200 bytes: rxjs makes one for the first teardown, and V8 gives it room for 17.
 */
export class IdleSubscription extends Subscription {
  #teardown: TeardownLogic = undefined;

  override add(teardown: TeardownLogic): void {
    if (teardown === this) return;
    if (this.#teardown || this.closed) super.add(teardown);
    else this.#teardown = teardown;
  }

  override remove(teardown: Exclude<TeardownLogic, void>): void {
    if (this.#teardown === teardown) this.#teardown = undefined;
    else super.remove(teardown);
  }

  override unsubscribe(): void {
    if (this.closed) return;
    const teardown = this.#teardown;
    this.#teardown = undefined;
    super.unsubscribe();
    if (typeof teardown === 'function') teardown();
    else teardown?.unsubscribe();
  }
}
