/**
 * Events of one session, in order: what the SDKs need for resumption. Their own example sorts every event of the process by
 * time and chance, which is slower, and wrong within one millisecond.
 */
export class SessionEventStore<Message> {
  readonly #streams = new Map<string, Message[]>();

  storeEvent(stream: string, message: Message): Promise<string> {
    let events = this.#streams.get(stream);
    if (!events) this.#streams.set(stream, (events = []));
    events.push(message);
    return Promise.resolve(`${stream}_${events.length}`);
  }

  async replayEventsAfter(
    cursor: string,
    { send }: { send: (id: string, message: Message) => Promise<void> },
  ): Promise<string> {
    const at = cursor.lastIndexOf('_');
    const stream = cursor.slice(0, at);
    const events = this.#streams.get(stream) ?? [];
    for (let index = Number(cursor.slice(at + 1)); index < events.length; index++) {
      await send(`${stream}_${index + 1}`, events[index]!);
    }
    return stream;
  }
}
