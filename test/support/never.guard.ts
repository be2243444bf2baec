import { type CanActivate, ForbiddenException, Injectable } from '@nestjs/common';

/** Refuses every caller. */
@Injectable()
export class Never implements CanActivate {
  canActivate(): boolean {
    throw new ForbiddenException('Not you.');
  }
}
