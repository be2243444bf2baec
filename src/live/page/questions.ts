import { button, make } from './dom.js';
import { FieldError, formOf } from './form.js';
import { json, note } from './parts.js';
import type { Schema } from './schema.js';

/* Questions of a server to the user of Try it. */

type Params = Readonly<Record<string, unknown>>;

export interface Question {
  readonly node: HTMLElement;
  /** @throws (rejects) when the user refuses, or the call has ended */
  readonly answer: Promise<object>;
}

/** @param signal aborts when the call has ended */
export function questionForm(method: string, params: Params, signal: AbortSignal): Question {
  const node = make('form', { class: 'question' });
  const { promise, resolve, reject } = Promise.withResolvers<object>();
  const end = () => {
    for (const field of node.querySelectorAll<HTMLButtonElement>('input, textarea, select, button'))
      field.disabled = true;
  };
  const settle = (answer: object) => {
    end();
    resolve(answer);
  };
  signal.addEventListener('abort', () => {
    end();
    reject(new Error('The call has ended.'));
  });
  // It is awaited by the client, which may have gone.
  promise.catch(() => {});
  const read = method === 'sampling/createMessage' ? sampling(node, params) : elicitation(node, params);
  const submit = make(
    'button',
    { type: 'submit', class: 'primary' },
    method === 'sampling/createMessage' ? 'Answer' : 'Accept',
  );
  const buttons = make('div', { class: 'buttons' }, submit);
  if (method === 'elicitation/create')
    buttons.append(
      button('Decline', () => settle({ action: 'decline' })),
      button('Dismiss', () => settle({ action: 'cancel' })),
    );
  else
    buttons.append(
      button('Refuse', () => {
        end();
        reject(new Error('The user refused.'));
      }),
    );
  node.append(buttons);
  node.addEventListener('submit', (event) => {
    event.preventDefault();
    try {
      settle(read());
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
    }
  });
  return { node, answer: promise };
}

function elicitation(node: HTMLElement, { message, requestedSchema, url }: Params): () => object {
  node.append(make('p', {}, make('bdi', {}, typeof message === 'string' ? message : '')));
  if (typeof url === 'string') {
    // Shown as text: the user decides whether to open what a server names.
    node.append(note('It asks you to open:'), json(url));
    return () => ({ action: 'accept' });
  }
  const form = formOf((requestedSchema ?? { type: 'object', properties: {} }) as Schema);
  node.append(form.node);
  return () => ({ action: 'accept', content: form.value() });
}

function sampling(node: HTMLElement, { messages, systemPrompt }: Params): () => object {
  if (typeof systemPrompt === 'string') node.append(note('System prompt'), json(systemPrompt));
  node.append(json(messages));
  const text = make('textarea', { rows: '3', 'aria-label': 'Answer of the model' });
  node.append(text);
  return () => ({
    role: 'assistant',
    content: { type: 'text', text: text.value },
    model: 'answered-by-hand',
    stopReason: 'endTurn',
  });
}
