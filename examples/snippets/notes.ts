import { Injectable } from '@nestjs/common';

/** A note of a user. */
export interface Note {
  id: string;
  title: string;
  text: string;
}

@Injectable()
export class Notes {
  of(_user: string | undefined): Promise<Note[]> {
    return Promise.resolve([{ id: '7', title: 'Milk', text: 'Buy milk.' }]);
  }
}
