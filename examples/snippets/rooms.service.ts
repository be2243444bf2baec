import { Injectable } from '@nestjs/common';

export interface Offer {
  id: string;
  hotel: string;
  price: number;
}

@Injectable()
export class Rooms {
  /** Rooms that are reserved, by their ids. */
  readonly reserved: string[] = [];

  reserve(city: string): Promise<Offer> {
    const id = `room-${this.reserved.push(city)}`;
    return Promise.resolve({ id, hotel: `Hotel ${city}`, price: 80 });
  }

  book(id: string, name: string): Promise<string> {
    return Promise.resolve(`${id} is booked for ${name}.`);
  }
}
