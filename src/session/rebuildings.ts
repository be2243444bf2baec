/**
 * # Sessions that are being rebuilt on this node
 *
 * Each once, whoever asks for it meanwhile. What other nodes say of it in that time nobody hears: that there was something is
 * noted, so that whoever rebuilds it looks once more into the stores.
 */
export class Rebuildings<Copy> {
  readonly #underWay = new Map<string, Rebuilding<Copy>>();

  /** @returns what is being rebuilt already, or else what `rebuild` makes */
  join(id: string, rebuild: () => Promise<Copy | undefined>): Promise<Copy | undefined> {
    const underWay = this.#underWay.get(id);
    if (underWay) return underWay.copy;
    const copy = rebuild().finally(() => this.#underWay.delete(id));
    this.#underWay.set(id, { copy, news: false });
    return copy;
  }

  noteNews(id: string): void {
    const underWay = this.#underWay.get(id);
    if (underWay) underWay.news = true;
  }

  hasNews(id: string): boolean {
    return this.#underWay.get(id)?.news ?? false;
  }
}

interface Rebuilding<Copy> {
  readonly copy: Promise<Copy | undefined>;
  news: boolean;
}
