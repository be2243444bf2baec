import type { CanActivate } from '@nestjs/common';

/** Stands for what an app does with orders and money. */
export abstract class Shop {
  abstract remove(id: string): Promise<void>;
  abstract archive(id: string): Promise<void>;
  abstract discount(id: string, percent: number): Promise<void>;
  /** @returns the address of a parcel */
  abstract ship(id: string): Promise<string>;
  /** @returns the number of a receipt */
  abstract pay(account: string, cents: number): Promise<string>;
}

/** Stands for the guard of an app that knows its users by a cookie. */
export abstract class SignedIn implements CanActivate {
  abstract canActivate(): boolean;
}
