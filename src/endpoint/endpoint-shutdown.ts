import { Inject, Injectable, Module, type OnModuleDestroy } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';

/**
 * Stops all endpoints of an app, side by side, before anything else of it is destroyed.
 *
 * Nest destroys module after module, those near the root first and global ones last: what handlers inject would be closed
 * before their calls had ended, and each endpoint would take calls while the one before it drains.
 */
@Injectable()
export class EndpointShutdown implements OnModuleDestroy {
  readonly #stops: (() => Promise<void>)[] = [];

  constructor(@Inject(ModulesContainer) modules: ModulesContainer) {
    const own = [...modules.values()].find(({ metatype }) => metatype === McpShutdownModule);
    // The distance from the root is all that Nest orders its hooks by; the root itself has 1.
    if (own) own.distance = -1;
  }

  /** @param stop idempotent: the endpoint calls it itself when it is destroyed, and says there what went wrong */
  add(stop: () => Promise<void>): void {
    this.#stops.push(stop);
  }

  async onModuleDestroy(): Promise<void> {
    await Promise.allSettled(this.#stops.map((stop) => stop()));
  }
}

@Module({ providers: [EndpointShutdown], exports: [EndpointShutdown] })
export class McpShutdownModule {}
