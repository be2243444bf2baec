export interface SearchOptions {
  options: { processTerm: (term: string) => string | null };
  searchOptions: {
    fuzzy: number;
    prefix: boolean;
    boost: Record<string, number>;
    boostDocument: (page: string) => number;
  };
}
export const miniSearch: SearchOptions;
export function withQuestions(html: string, relativePath: string): string;
export function questions(): { question: string; targets: { page: string; anchor: string | undefined }[] }[];
