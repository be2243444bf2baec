import { Reflector } from '@nestjs/core';

/** A class or route that needs no login. */
export const Public = Reflector.createDecorator<void, true>({ transform: () => true });
