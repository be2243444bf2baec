import { EMPTY } from 'rxjs';
import { expect, it } from 'vitest';
import { ListenTopics } from './listen-topics.js';

it('topics of an endpoint have fields of their own', () => {
  const topics = new ListenTopics();
  const topic = { maxIds: 1, honored: async () => [], watch: () => EMPTY };
  topics.add('taskIds', topic);
  expect([topics.has('taskIds'), topics.has('others'), [...topics]]).toEqual([true, false, [['taskIds', topic]]]);
  expect(() => topics.add('taskIds', topic)).toThrow('There are two topics with the field "taskIds".');
});
