import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsEmail, IsOptional, IsString, Length } from 'class-validator';

export class FindContactsDto {
  @ApiPropertyOptional({ description: 'A part of the name' })
  @IsOptional()
  @IsString()
  name?: string;
}

export class CreateContactDto {
  @ApiProperty({ description: 'The full name, such as "Ada Lovelace"' })
  @IsString()
  @Length(1, 100)
  name!: string;

  @ApiProperty({ description: 'An address that no other contact has' })
  @IsEmail()
  email!: string;
}

export class ContactDto {
  @ApiProperty() id!: number;
  @ApiProperty() name!: string;
  @ApiProperty() email!: string;
}
