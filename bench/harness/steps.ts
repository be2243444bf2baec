/** Something that takes a while, and about how long. */
export interface Step {
  readonly title: string;
  /** On two quiet cores. */
  readonly seconds: number;
}

/** `50 s`, `4 min 10 s`. */
export function inWords(seconds: number): string {
  const all = Math.max(0, Math.round(seconds));
  const minutes = Math.floor(all / 60);
  return minutes === 0 ? `${all} s` : `${minutes} min ${all % 60} s`;
}

/** Says after each step how many are done, and how long the others will take: as much longer than expected as those before. */
export class Steps {
  readonly #began: number;
  #done = 0;

  constructor(
    private readonly steps: readonly Step[],
    private readonly say: (line: string) => void = console.log,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#began = now();
  }

  /** What all of them take, as expected. */
  get seconds(): number {
    return sum(this.steps);
  }

  /** Does the next one. */
  async next<T>(run: () => Promise<T>): Promise<T> {
    const { title } = this.steps[this.#done]!;
    const began = this.now();
    const result = await run();
    this.#done++;
    const now = this.now();
    const so = (now - this.#began) / 1000;
    const left = (sum(this.steps.slice(this.#done)) * so) / sum(this.steps.slice(0, this.#done));
    const rest = this.#done === this.steps.length ? '' : `, about ${inWords(left)} left`;
    this.say(
      `[${this.#done}/${this.steps.length}] ${title}: ${inWords((now - began) / 1000)}; ${inWords(so)} so far${rest}`,
    );
    return result;
  }
}

const sum = (steps: readonly Step[]): number => steps.reduce((total, { seconds }) => total + seconds, 0);
