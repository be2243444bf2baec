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

  async reserve(city: string): Promise<Offer> {
    this.reserved.push(city);
    return { id: `room-${this.reserved.length}`, hotel: `Hotel ${city}`, price: 80 };
  }

  async book(id: string, name: string): Promise<string> {
    return `${id} is booked for ${name}.`;
  }
}
