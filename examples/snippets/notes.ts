import { Injectable } from '@nestjs/common';

/** A note of a user. */
export interface Note {
  id: string;
  title: string;
  text: string;
}

@Injectable()
export class Notes {
  of(user: string | undefined): Promise<Note[]> {
    const notes = [{ id: '7', title: 'Milk', text: 'Buy milk.' }];
    return Promise.resolve(user === 'newcomer' ? [] : notes);
  }
}
