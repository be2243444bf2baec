import { IsInt, IsOptional, IsString } from 'class-validator';

export class UpdateProductDto {
  @IsInt() price!: number;
  @IsOptional() @IsString() note?: string;
}
